package dev.rota.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Creates, reads and changes calendars of the caller's tenant: named sets of dates on which schedules do not fire.
 * Needs the role client or operator.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class CalendarServiceGrpc {

  private CalendarServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "rota.v1.CalendarService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.CreateCalendarRequest,
      dev.rota.v1.CreateCalendarResponse> getCreateCalendarMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CreateCalendar",
      requestType = dev.rota.v1.CreateCalendarRequest.class,
      responseType = dev.rota.v1.CreateCalendarResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.CreateCalendarRequest,
      dev.rota.v1.CreateCalendarResponse> getCreateCalendarMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.CreateCalendarRequest, dev.rota.v1.CreateCalendarResponse> getCreateCalendarMethod;
    if ((getCreateCalendarMethod = CalendarServiceGrpc.getCreateCalendarMethod) == null) {
      synchronized (CalendarServiceGrpc.class) {
        if ((getCreateCalendarMethod = CalendarServiceGrpc.getCreateCalendarMethod) == null) {
          CalendarServiceGrpc.getCreateCalendarMethod = getCreateCalendarMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.CreateCalendarRequest, dev.rota.v1.CreateCalendarResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CreateCalendar"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CreateCalendarRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.CreateCalendarResponse.getDefaultInstance()))
              .setSchemaDescriptor(new CalendarServiceMethodDescriptorSupplier("CreateCalendar"))
              .build();
        }
      }
    }
    return getCreateCalendarMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.GetCalendarRequest,
      dev.rota.v1.GetCalendarResponse> getGetCalendarMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetCalendar",
      requestType = dev.rota.v1.GetCalendarRequest.class,
      responseType = dev.rota.v1.GetCalendarResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.GetCalendarRequest,
      dev.rota.v1.GetCalendarResponse> getGetCalendarMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.GetCalendarRequest, dev.rota.v1.GetCalendarResponse> getGetCalendarMethod;
    if ((getGetCalendarMethod = CalendarServiceGrpc.getGetCalendarMethod) == null) {
      synchronized (CalendarServiceGrpc.class) {
        if ((getGetCalendarMethod = CalendarServiceGrpc.getGetCalendarMethod) == null) {
          CalendarServiceGrpc.getGetCalendarMethod = getGetCalendarMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.GetCalendarRequest, dev.rota.v1.GetCalendarResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetCalendar"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.GetCalendarRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.GetCalendarResponse.getDefaultInstance()))
              .setSchemaDescriptor(new CalendarServiceMethodDescriptorSupplier("GetCalendar"))
              .build();
        }
      }
    }
    return getGetCalendarMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.ListCalendarsRequest,
      dev.rota.v1.ListCalendarsResponse> getListCalendarsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListCalendars",
      requestType = dev.rota.v1.ListCalendarsRequest.class,
      responseType = dev.rota.v1.ListCalendarsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.ListCalendarsRequest,
      dev.rota.v1.ListCalendarsResponse> getListCalendarsMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.ListCalendarsRequest, dev.rota.v1.ListCalendarsResponse> getListCalendarsMethod;
    if ((getListCalendarsMethod = CalendarServiceGrpc.getListCalendarsMethod) == null) {
      synchronized (CalendarServiceGrpc.class) {
        if ((getListCalendarsMethod = CalendarServiceGrpc.getListCalendarsMethod) == null) {
          CalendarServiceGrpc.getListCalendarsMethod = getListCalendarsMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.ListCalendarsRequest, dev.rota.v1.ListCalendarsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListCalendars"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListCalendarsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.ListCalendarsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new CalendarServiceMethodDescriptorSupplier("ListCalendars"))
              .build();
        }
      }
    }
    return getListCalendarsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.UpdateCalendarRequest,
      dev.rota.v1.UpdateCalendarResponse> getUpdateCalendarMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "UpdateCalendar",
      requestType = dev.rota.v1.UpdateCalendarRequest.class,
      responseType = dev.rota.v1.UpdateCalendarResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.UpdateCalendarRequest,
      dev.rota.v1.UpdateCalendarResponse> getUpdateCalendarMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.UpdateCalendarRequest, dev.rota.v1.UpdateCalendarResponse> getUpdateCalendarMethod;
    if ((getUpdateCalendarMethod = CalendarServiceGrpc.getUpdateCalendarMethod) == null) {
      synchronized (CalendarServiceGrpc.class) {
        if ((getUpdateCalendarMethod = CalendarServiceGrpc.getUpdateCalendarMethod) == null) {
          CalendarServiceGrpc.getUpdateCalendarMethod = getUpdateCalendarMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.UpdateCalendarRequest, dev.rota.v1.UpdateCalendarResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "UpdateCalendar"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.UpdateCalendarRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.UpdateCalendarResponse.getDefaultInstance()))
              .setSchemaDescriptor(new CalendarServiceMethodDescriptorSupplier("UpdateCalendar"))
              .build();
        }
      }
    }
    return getUpdateCalendarMethod;
  }

  private static volatile io.grpc.MethodDescriptor<dev.rota.v1.DeleteCalendarRequest,
      dev.rota.v1.DeleteCalendarResponse> getDeleteCalendarMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteCalendar",
      requestType = dev.rota.v1.DeleteCalendarRequest.class,
      responseType = dev.rota.v1.DeleteCalendarResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<dev.rota.v1.DeleteCalendarRequest,
      dev.rota.v1.DeleteCalendarResponse> getDeleteCalendarMethod() {
    io.grpc.MethodDescriptor<dev.rota.v1.DeleteCalendarRequest, dev.rota.v1.DeleteCalendarResponse> getDeleteCalendarMethod;
    if ((getDeleteCalendarMethod = CalendarServiceGrpc.getDeleteCalendarMethod) == null) {
      synchronized (CalendarServiceGrpc.class) {
        if ((getDeleteCalendarMethod = CalendarServiceGrpc.getDeleteCalendarMethod) == null) {
          CalendarServiceGrpc.getDeleteCalendarMethod = getDeleteCalendarMethod =
              io.grpc.MethodDescriptor.<dev.rota.v1.DeleteCalendarRequest, dev.rota.v1.DeleteCalendarResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteCalendar"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.DeleteCalendarRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  dev.rota.v1.DeleteCalendarResponse.getDefaultInstance()))
              .setSchemaDescriptor(new CalendarServiceMethodDescriptorSupplier("DeleteCalendar"))
              .build();
        }
      }
    }
    return getDeleteCalendarMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static CalendarServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<CalendarServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<CalendarServiceStub>() {
        @java.lang.Override
        public CalendarServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new CalendarServiceStub(channel, callOptions);
        }
      };
    return CalendarServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static CalendarServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<CalendarServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<CalendarServiceBlockingV2Stub>() {
        @java.lang.Override
        public CalendarServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new CalendarServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return CalendarServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static CalendarServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<CalendarServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<CalendarServiceBlockingStub>() {
        @java.lang.Override
        public CalendarServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new CalendarServiceBlockingStub(channel, callOptions);
        }
      };
    return CalendarServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static CalendarServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<CalendarServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<CalendarServiceFutureStub>() {
        @java.lang.Override
        public CalendarServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new CalendarServiceFutureStub(channel, callOptions);
        }
      };
    return CalendarServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Creates, reads and changes calendars of the caller's tenant: named sets of dates on which schedules do not fire.
   * Needs the role client or operator.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Creates a calendar.
     * </pre>
     */
    default void createCalendar(dev.rota.v1.CreateCalendarRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CreateCalendarResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCreateCalendarMethod(), responseObserver);
    }

    /**
     * <pre>
     * Reads one calendar.
     * </pre>
     */
    default void getCalendar(dev.rota.v1.GetCalendarRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.GetCalendarResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetCalendarMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists calendars by id, without their dates.
     * </pre>
     */
    default void listCalendars(dev.rota.v1.ListCalendarsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListCalendarsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListCalendarsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Changes fields of a calendar. Next times of its schedules follow.
     * </pre>
     */
    default void updateCalendar(dev.rota.v1.UpdateCalendarRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.UpdateCalendarResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getUpdateCalendarMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes a calendar. Refused with INVALID_STATE while a schedule names it.
     * </pre>
     */
    default void deleteCalendar(dev.rota.v1.DeleteCalendarRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.DeleteCalendarResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteCalendarMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service CalendarService.
   * <pre>
   * Creates, reads and changes calendars of the caller's tenant: named sets of dates on which schedules do not fire.
   * Needs the role client or operator.
   * </pre>
   */
  public static abstract class CalendarServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return CalendarServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service CalendarService.
   * <pre>
   * Creates, reads and changes calendars of the caller's tenant: named sets of dates on which schedules do not fire.
   * Needs the role client or operator.
   * </pre>
   */
  public static final class CalendarServiceStub
      extends io.grpc.stub.AbstractAsyncStub<CalendarServiceStub> {
    private CalendarServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected CalendarServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new CalendarServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a calendar.
     * </pre>
     */
    public void createCalendar(dev.rota.v1.CreateCalendarRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.CreateCalendarResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCreateCalendarMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Reads one calendar.
     * </pre>
     */
    public void getCalendar(dev.rota.v1.GetCalendarRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.GetCalendarResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetCalendarMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists calendars by id, without their dates.
     * </pre>
     */
    public void listCalendars(dev.rota.v1.ListCalendarsRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.ListCalendarsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListCalendarsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Changes fields of a calendar. Next times of its schedules follow.
     * </pre>
     */
    public void updateCalendar(dev.rota.v1.UpdateCalendarRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.UpdateCalendarResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getUpdateCalendarMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Deletes a calendar. Refused with INVALID_STATE while a schedule names it.
     * </pre>
     */
    public void deleteCalendar(dev.rota.v1.DeleteCalendarRequest request,
        io.grpc.stub.StreamObserver<dev.rota.v1.DeleteCalendarResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteCalendarMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service CalendarService.
   * <pre>
   * Creates, reads and changes calendars of the caller's tenant: named sets of dates on which schedules do not fire.
   * Needs the role client or operator.
   * </pre>
   */
  public static final class CalendarServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<CalendarServiceBlockingV2Stub> {
    private CalendarServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected CalendarServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new CalendarServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a calendar.
     * </pre>
     */
    public dev.rota.v1.CreateCalendarResponse createCalendar(dev.rota.v1.CreateCalendarRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCreateCalendarMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads one calendar.
     * </pre>
     */
    public dev.rota.v1.GetCalendarResponse getCalendar(dev.rota.v1.GetCalendarRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetCalendarMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists calendars by id, without their dates.
     * </pre>
     */
    public dev.rota.v1.ListCalendarsResponse listCalendars(dev.rota.v1.ListCalendarsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListCalendarsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Changes fields of a calendar. Next times of its schedules follow.
     * </pre>
     */
    public dev.rota.v1.UpdateCalendarResponse updateCalendar(dev.rota.v1.UpdateCalendarRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getUpdateCalendarMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a calendar. Refused with INVALID_STATE while a schedule names it.
     * </pre>
     */
    public dev.rota.v1.DeleteCalendarResponse deleteCalendar(dev.rota.v1.DeleteCalendarRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeleteCalendarMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service CalendarService.
   * <pre>
   * Creates, reads and changes calendars of the caller's tenant: named sets of dates on which schedules do not fire.
   * Needs the role client or operator.
   * </pre>
   */
  public static final class CalendarServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<CalendarServiceBlockingStub> {
    private CalendarServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected CalendarServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new CalendarServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a calendar.
     * </pre>
     */
    public dev.rota.v1.CreateCalendarResponse createCalendar(dev.rota.v1.CreateCalendarRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCreateCalendarMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Reads one calendar.
     * </pre>
     */
    public dev.rota.v1.GetCalendarResponse getCalendar(dev.rota.v1.GetCalendarRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetCalendarMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists calendars by id, without their dates.
     * </pre>
     */
    public dev.rota.v1.ListCalendarsResponse listCalendars(dev.rota.v1.ListCalendarsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListCalendarsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Changes fields of a calendar. Next times of its schedules follow.
     * </pre>
     */
    public dev.rota.v1.UpdateCalendarResponse updateCalendar(dev.rota.v1.UpdateCalendarRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getUpdateCalendarMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes a calendar. Refused with INVALID_STATE while a schedule names it.
     * </pre>
     */
    public dev.rota.v1.DeleteCalendarResponse deleteCalendar(dev.rota.v1.DeleteCalendarRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteCalendarMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service CalendarService.
   * <pre>
   * Creates, reads and changes calendars of the caller's tenant: named sets of dates on which schedules do not fire.
   * Needs the role client or operator.
   * </pre>
   */
  public static final class CalendarServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<CalendarServiceFutureStub> {
    private CalendarServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected CalendarServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new CalendarServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Creates a calendar.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.CreateCalendarResponse> createCalendar(
        dev.rota.v1.CreateCalendarRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCreateCalendarMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Reads one calendar.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.GetCalendarResponse> getCalendar(
        dev.rota.v1.GetCalendarRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetCalendarMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists calendars by id, without their dates.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.ListCalendarsResponse> listCalendars(
        dev.rota.v1.ListCalendarsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListCalendarsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Changes fields of a calendar. Next times of its schedules follow.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.UpdateCalendarResponse> updateCalendar(
        dev.rota.v1.UpdateCalendarRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getUpdateCalendarMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes a calendar. Refused with INVALID_STATE while a schedule names it.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<dev.rota.v1.DeleteCalendarResponse> deleteCalendar(
        dev.rota.v1.DeleteCalendarRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteCalendarMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_CREATE_CALENDAR = 0;
  private static final int METHODID_GET_CALENDAR = 1;
  private static final int METHODID_LIST_CALENDARS = 2;
  private static final int METHODID_UPDATE_CALENDAR = 3;
  private static final int METHODID_DELETE_CALENDAR = 4;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_CREATE_CALENDAR:
          serviceImpl.createCalendar((dev.rota.v1.CreateCalendarRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.CreateCalendarResponse>) responseObserver);
          break;
        case METHODID_GET_CALENDAR:
          serviceImpl.getCalendar((dev.rota.v1.GetCalendarRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.GetCalendarResponse>) responseObserver);
          break;
        case METHODID_LIST_CALENDARS:
          serviceImpl.listCalendars((dev.rota.v1.ListCalendarsRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.ListCalendarsResponse>) responseObserver);
          break;
        case METHODID_UPDATE_CALENDAR:
          serviceImpl.updateCalendar((dev.rota.v1.UpdateCalendarRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.UpdateCalendarResponse>) responseObserver);
          break;
        case METHODID_DELETE_CALENDAR:
          serviceImpl.deleteCalendar((dev.rota.v1.DeleteCalendarRequest) request,
              (io.grpc.stub.StreamObserver<dev.rota.v1.DeleteCalendarResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getCreateCalendarMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.CreateCalendarRequest,
              dev.rota.v1.CreateCalendarResponse>(
                service, METHODID_CREATE_CALENDAR)))
        .addMethod(
          getGetCalendarMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.GetCalendarRequest,
              dev.rota.v1.GetCalendarResponse>(
                service, METHODID_GET_CALENDAR)))
        .addMethod(
          getListCalendarsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.ListCalendarsRequest,
              dev.rota.v1.ListCalendarsResponse>(
                service, METHODID_LIST_CALENDARS)))
        .addMethod(
          getUpdateCalendarMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.UpdateCalendarRequest,
              dev.rota.v1.UpdateCalendarResponse>(
                service, METHODID_UPDATE_CALENDAR)))
        .addMethod(
          getDeleteCalendarMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              dev.rota.v1.DeleteCalendarRequest,
              dev.rota.v1.DeleteCalendarResponse>(
                service, METHODID_DELETE_CALENDAR)))
        .build();
  }

  private static abstract class CalendarServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    CalendarServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return dev.rota.v1.Schedules.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("CalendarService");
    }
  }

  private static final class CalendarServiceFileDescriptorSupplier
      extends CalendarServiceBaseDescriptorSupplier {
    CalendarServiceFileDescriptorSupplier() {}
  }

  private static final class CalendarServiceMethodDescriptorSupplier
      extends CalendarServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    CalendarServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (CalendarServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new CalendarServiceFileDescriptorSupplier())
              .addMethod(getCreateCalendarMethod())
              .addMethod(getGetCalendarMethod())
              .addMethod(getListCalendarsMethod())
              .addMethod(getUpdateCalendarMethod())
              .addMethod(getDeleteCalendarMethod())
              .build();
        }
      }
    }
    return result;
  }
}
